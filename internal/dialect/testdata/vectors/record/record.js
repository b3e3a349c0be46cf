// What two npm libraries really do, on a stub of their Redis client and a clock that stands still:
//
//   npm install redis-lock@0.0.9 faye-redis@0.2.0
//   node record.js errorception > ../recorded-errorception.txt
//   node record.js faye > ../recorded-faye.txt
//
// The format is that of the other files in that folder; its header explains it.
"use strict";
const which = process.argv[2], NOW = 1400000000123;
const RealDate = Date;
let now = NOW;
global.Date = class extends RealDate { getTime() { return now; } static now() { return now; } };

const word = v => v === null ? "nil" : /^[!-~]*$/.test(v) ? "=" + v : "hex:" + Buffer.from(v).toString("hex");
const nanos = ms => String(ms) + "000000";
const seens = ["1400000000122", "1400000000123", "1400000000124", "1399999999999", "1400000000122.5", "1400000000123.5", "0", "1", "-5",
  "+5", " 5", "5 ", "5x", "1.4e12", "1e999", "", "abc", "NaN", "Infinity", "-Infinity", "0x10", "9223372036854775807",
  "4611686018427387904", "\u00a05", null, "01020300-0000-4000-8000-000000000000:1400000060124", "1400000060124", "1400000000"];

// attempt runs one attempt of a client that lost its SETNX, and says what it sent and what came of it.
function attempt(seen, old) {
  const did = { getset: undefined, end: "wait" };
  const client = {
    setnx(key, value, cb) { did.stamp = String(value); cb(null, 0); },
    get(key, cb) { cb(null, seen); },
    getset(key, value, cb) { did.getset = String(value); cb(null, old); },
    del(key, cb) { did.del = true; if (cb) cb(); },
  };
  run(client, lost => { did.end = "won"; did.release = lost; });
  return did;
}

let run, lease;
if (which === "errorception") {
  lease = 5000;
  global.setTimeout = () => {};
  run = (client, won) => require("redis-lock")(client)("stock", task => won(task));
} else {
  lease = 120000;
  const Engine = require("module")._load("faye-redis", module);
  run = (client, won) => Engine.prototype._withLock.call(
    { _redis: client, _ns: "", LOCK_TIMEOUT: Engine.prototype.LOCK_TIMEOUT }, "gc", won);
}

console.log("# Recorded by record/record.js on Node " + process.version + ".");
console.log("dialect " + which);
for (now of [NOW, 1, 1600000000000, 253402300000000])
  console.log("stamp", nanos(now), lease, "-", word(attempt("1", null).stamp));
now = NOW;
for (const seen of seens)
  console.log("next", nanos(now), "-", word(seen), attempt(seen, null).getset !== undefined ? "getset" :
    which === "faye" && !seen ? "give_up" : "wait"); // both of Faye's end the only attempt
for (const seen of seens.filter(s => attempt(s, null).getset !== undefined))
  for (const old of [seen, null, "", "1", "1400000000122", "1400000000122.0", "1400000060124", "abc", "0x1"])
    console.log("wins", nanos(now), word(seen), word(old), attempt(seen, old).end === "won" ? "won" : "lost");
for (const ahead of [-1, 0, 1, 60000]) {
  now = NOW;
  const did = attempt("1", "1");
  now = NOW + lease + 1 - ahead;
  did.release(() => {});
  console.log("release", nanos(now), word(did.stamp), "nil", did.del ? "del" : "leave");
}
