-- finish: L, M; token, gap, bytes, their end in seconds and micros, now (2) → 1 or {0 (M) or 2 (L), look}
-- It is release where the key means "done" and is never deleted: what stays is what the old client
-- itself had left there, until its own end (rule 10).
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert now
-- insert look
-- insert mine
local sec, usec = now(ARGV[6], ARGV[7])
-- insert own
local rest = (tonumber(ARGV[4]) - sec) * 1000 + math.floor((tonumber(ARGV[5]) - usec) / 1000)
if rest > 0 then
  call('SET', L, ARGV[3], 'PX', string.format('%.0f', rest))
else
  call('DEL', L)
end
call('DEL', M)
return 1
