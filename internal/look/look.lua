-- look: L, M:look; bytes on L, boot, up, 1 to begin anew, TIME (2, empty: the script reads it) → {} (L carries other bytes), {sec, usec, run} (remembered now) or {sec, usec, run, sec, usec, run, boot, up} (… and what was remembered)
local L, memory, bytes = KEYS[1], KEYS[2], ARGV[1]
local sec, usec = ARGV[5], ARGV[6]
if sec == '' then
  if redis.replicate_commands then redis.replicate_commands() end
  local t = redis.call('TIME')
  sec, usec = t[1], t[2]
end
if redis.call('TYPE', L).ok ~= 'string' or redis.call('GET', L) ~= bytes then return {} end

-- The run id names this life of this server. A server that tells none, or a user without the right to
-- ask, has an empty one.
local run, info = '', redis.pcall('INFO', 'server')
if type(info) == 'string' then run = string.match(info, 'run_id:([^\r\n]+)') or '' end

local kind = redis.call('TYPE', memory).ok
local before = kind == 'hash' and redis.call('HMGET', memory, 'bytes', 'sec', 'usec', 'run', 'boot', 'up')
if before and before[1] == bytes and before[6] and ARGV[4] == '' then
  return {sec, usec, run, before[2], before[3], before[4], before[5], before[6]}
end
redis.call('DEL', memory)
redis.call('HMSET', memory, 'bytes', bytes, 'sec', sec, 'usec', usec, 'run', run, 'boot', ARGV[2], 'up', ARGV[3])
redis.call('PEXPIRE', memory, 2592000000)
return {sec, usec, run}
