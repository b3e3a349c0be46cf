-- bridge_done: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, its PX, and what M becomes, with its PX → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
if redis.pcall('GET', M) ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- insert look
  -- insert mine
  on = mine(string.match(ARGV[1], '[^ ]*'))
  if not on then return {0, look()} end
  if not stands(on) then
    -- Whoever was let in has taken the tick for its own; the next holder has to see that (rule 10).
    call('DEL', M)
    return {2, look()}
  end
end
if on ~= '' and on ~= ARGV[3] then
  call('SET', L, ARGV[3], 'PX', ARGV[4])
end
-- A tombstone tells ours that L is free. That the tick is done is said by M, to whoever comes before it ends.
call('SET', M, ARGV[5], 'PX', ARGV[6])
return 1
