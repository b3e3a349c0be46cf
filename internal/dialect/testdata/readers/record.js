// node record.js < texts.json > js.txt: what parseFloat, parseInt and Number make of each text.
console.log("# parseFloat, parseInt(…, 10), Number of Node " + process.version);
const ascii = s => JSON.stringify(s).replace(/[\u007f-\uffff]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
for (const text of JSON.parse(require("fs").readFileSync(0, "utf8")))
  console.log(ascii(text), "float", parseFloat(text), "int", parseInt(text, 10), "number", Number(text));
