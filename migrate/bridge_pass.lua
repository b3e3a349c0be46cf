-- bridge_pass: L, M, counter if there is one; token, new token, PX, tombstone, its PX, numbers, TIME or '' twice → {1, fencing number} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
-- insert mine
-- insert keep
-- The guard stays and so does what its settle has found out; the token excludes the old holder.
local on = mine(ARGV[1])
if not on then return {0, look()} end
if not stands(on) then return {2, look()} end
local fence = 0
if ARGV[6] ~= '0' then
  -- insert draw
  fence = draw(KEYS[3], ARGV[6], ARGV[7], ARGV[8])
end
call('SET', M, ARGV[2] .. string.sub(call('GET', M), #ARGV[1] + 1), 'PX', ARGV[3])
keep(on, ARGV[3], ARGV[4], ARGV[5])
return {1, fence}
