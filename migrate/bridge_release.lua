-- bridge_release: L, M; token, tombstone, what takes the guard's place ('': nothing), its PX, all of M and what stands on L as far as known → {1} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
local on = ARGV[6]
if redis.pcall('GET', M) ~= ARGV[5] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- insert look
  -- insert mine
  on = mine(ARGV[1])
  -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
  if not on then return {0, look()} end
  if not stands(on) then
    -- Nor is a tombstone put back here: that would hide from the next holder who was let in (rule 10).
    call('DEL', M)
    return {2, look()}
  end
end
if on == '' or on == ARGV[2] then
  call('DEL', M)
elseif ARGV[3] == '' then
  call('DEL', M, L)
else
  call('SET', L, ARGV[3], 'PX', ARGV[4])
  call('DEL', M)
end
return {1}
