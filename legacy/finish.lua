-- finish: L, M; token, gap, bytes, their end in seconds and micros, now (2) → {1} or {0 (M) or 2 (L), look}
-- It is release where the key means "done" and is never deleted: what stays is what the old client
-- itself had left there, until its own end (rule 10).
local sec, usec = now(ARGV[6], ARGV[7])
local last = mine(ARGV[1])
if not last then return {0, look(sec, usec)} end
local reply = {1}
if stands(last, ARGV[2]) then
  local left = (tonumber(ARGV[4]) - sec) * 1000 + math.floor((tonumber(ARGV[5]) - usec) / 1000)
  if left > 0 then
    redis.call('SET', L, ARGV[3], 'PX', string.format('%.0f', left))
  else
    redis.call('DEL', L)
  end
else
  reply = {2, look(sec, usec)}
end
redis.call('DEL', M)
return reply
