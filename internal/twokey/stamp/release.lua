-- release: L, M; token, gap, and, where the key is left to old clients, for how many ms → 1 or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
-- insert mine
-- insert own
call('DEL', L)
if ARGV[3] then
  -- Until this ends no client of ours takes the key, and old clients that poll find it free.
  call('SET', M, 'left ' .. ARGV[1], 'PX', ARGV[3])
else
  call('DEL', M)
end
return 1
