-- bridge_done: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, its PX, and what M becomes, with its PX → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
-- insert own
if on ~= '' and on ~= ARGV[3] then
  call('SET', L, ARGV[3], 'PX', ARGV[4])
end
-- A tombstone tells ours that L is free. That the tick is done is said by M, to whoever comes before it ends.
call('SET', M, ARGV[5], 'PX', ARGV[6])
return 1
