"""python3 record.py < texts.json > python.txt: what float() makes of each text."""
import json, sys

print("# float() of Python", sys.version.split()[0])
for text in json.load(sys.stdin):
    try:
        got = repr(float(text.encode("utf-8", "surrogatepass")))
    except ValueError:
        got = "unreadable"
    print(json.dumps(text), "float", got)
