// SPDX-License-Identifier: Apache-2.0
// Lets npm's redlock contend for a key; see redlock_test.go. Arguments: the key,
// the file with the counter, the TTL in ms, and host:port of every server. The
// first line of the input starts it, the second one ends it.
const fs = require('fs');
const lines = require('readline').createInterface({ input: process.stdin });
const Redis = require('ioredis');
const Redlock = require('redlock');

const [key, file, ttl, ...servers] = process.argv.slice(2);
const clients = servers.map((s) => new Redis(Number(s.split(':')[1]), s.split(':')[0]));
const redlock = new Redlock(clients, { retryCount: 1e6, retryDelay: 10, retryJitter: 10 });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let stopped = false;

async function count() {
  lines.once('line', () => { stopped = true; });
  while (!stopped) {
    const lock = await redlock.lock(key, Number(ttl));
    const before = Number(fs.readFileSync(file, 'utf8'));
    await pause(1);
    fs.writeFileSync(file, String(before + 1));
    await lock.unlock();
    console.log('did');
    await pause(20 * Math.random());
  }
}

Promise.all(clients.map((c) => c.ping())).then(() => {
  console.log('ready');
  return new Promise((start) => lines.once('line', start));
}).then(count).then(() => process.exit(0), (err) => {
  console.error('redlock.js:', err);
  process.exit(1);
});
