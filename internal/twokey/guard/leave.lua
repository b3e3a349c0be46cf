-- bridge_leave: L, M; all of M as far as known, its token at least, what stands on L for it, tombstone, and for how many ms the key is left to old clients → 1, or {0 (M) or 2 (L), look}
local L, M, call, on = KEYS[1], KEYS[2], redis.call, ARGV[2]
-- insert own
if on == '' or on == ARGV[3] then
  call('DEL', M) -- no old client waits for it, or none can get in
  return 1
end
call('DEL', L)
-- Until this ends no client of ours takes the key, and old clients that poll find it free.
call('SET', M, 'left ' .. string.match(ARGV[1], '[^ ]*'), 'PX', ARGV[4])
return 1
