-- release: L, M; token, gap, and, where the key is left to old clients, for how many ms → {1} or {0 (M) or 2 (L), look}
local last = mine(ARGV[1])
if not last then
  -- A release whose reply was lost is sent again: it has left the key.
  if redis.call('GET', M) == 'left ' .. ARGV[1] then return {1} end
  -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
  return {0, look(0, 0)}
end
local reply = {1}
if stands(last, ARGV[2]) then
  redis.call('DEL', L)
  if ARGV[3] then
    -- Until this ends no client of ours takes the key, and old clients that poll find it free.
    redis.call('SET', M, 'left ' .. ARGV[1], 'PX', ARGV[3])
    return reply
  end
else
  -- Somebody else has been let in, so nobody is owed a turn.
  reply = {2, look(0, 0)}
end
redis.call('DEL', M)
return reply
