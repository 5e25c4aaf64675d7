'use strict';
// Settings, clock and records; see README.md. CommonJS, because it finds packages through NODE_PATH.
const fs = require('fs');
const path = require('path');

const at = new URL(process.env.PEERS_URL || 'redis://127.0.0.1:6379');
exports.server = { host: at.hostname, port: Number(at.port), maxRetriesPerRequest: null };

exports.settings = Object.fromEntries(process.argv.slice(4).map((word) => {
  const [key, value] = word.split('=');
  return [key, Number(value)];
}));

// Nanoseconds of CLOCK_MONOTONIC, shared by all processes of the machine. Below 2^53 for 100 days of uptime.
exports.now = () => Number(process.hrtime.bigint());

exports.sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const file = fs.openSync(path.join(process.env.PEERS_OUT || '.', String(process.pid)), 'w');
let unwritten = [];

exports.add = (...record) => { unwritten.push(record); };

exports.write = () => {
  const bytes = Buffer.alloc(unwritten.length * 32);
  unwritten.forEach((record, i) => record.forEach((n, j) => bytes.writeBigUInt64LE(BigInt(n), i * 32 + j * 8)));
  unwritten = [];
  fs.writeSync(file, bytes);
};

// Runs `caller` `callers` times concurrently.
exports.together = (callers, caller) => Promise.all(Array.from({ length: callers }, (_, n) => caller(n)));

exports.end = (work) => work.then(() => { exports.write(); process.exit(0); }, (error) => {
  console.error(error);
  process.exit(1);
});
