-- bridge_release: L, M; token, tombstone, what takes the guard's place ('': nothing), its PX → {1} or {0 (M) or 2 (L), look}
local on = mine(ARGV[1])
-- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
if not on then return {0, look()} end
local reply = {1}
if not stands(on) then
  -- Nor is a tombstone put back here: that would hide from the next holder who was let in (rule 10).
  reply = {2, look()}
elseif on ~= '' and on ~= ARGV[2] then
  if ARGV[3] ~= '' then
    redis.call('SET', L, ARGV[3], 'PX', ARGV[4])
  else
    redis.call('DEL', L)
  end
end
redis.call('DEL', M)
return reply
