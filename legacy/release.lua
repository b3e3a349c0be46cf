-- release: L, M; token, gap → {1} or {0 (M) or 2 (L), look}
local last = mine(ARGV[1])
-- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
if not last then return {0, look(0, 0)} end
local reply = {1}
if stands(last, ARGV[2]) then
  redis.call('DEL', L)
else
  reply = {2, look(0, 0)}
end
redis.call('DEL', M)
return reply
