-- bridge_release: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, and, where something takes the guard's place, that and its PX → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
-- insert own
if on == '' or on == ARGV[3] then
  call('DEL', M)
elseif ARGV[4] then
  call('SET', L, ARGV[4], 'PX', ARGV[5])
  call('DEL', M)
else
  call('DEL', M, L)
end
return 1
