-- bridge_release: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, and, where something takes the guard's place, that and its PX → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
if redis.pcall('GET', M) ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- insert look
  -- insert mine
  on = mine(string.match(ARGV[1], '[^ ]*'))
  -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
  if not on then return {0, look()} end
  if not stands(on) then
    -- Nor is a tombstone put back here: that would hide from the next holder who was let in (rule 10).
    call('DEL', M)
    return {2, look()}
  end
end
if on == '' or on == ARGV[3] then
  call('DEL', M)
elseif ARGV[4] then
  call('SET', L, ARGV[4], 'PX', ARGV[5])
  call('DEL', M)
else
  call('DEL', M, L)
end
return 1
