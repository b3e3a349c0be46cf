-- bridge_pass: L, M, counter if there is one; all of M, what it becomes, PX, what stands on L for it ('': nothing), tombstone, its PX, and, as far as needed, numbers, TIME twice → fencing number or 1, or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
local px, on, number = ARGV[3], ARGV[4], 1
local m = redis.pcall('GET', M)
if m ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- insert look
  return {m == ARGV[1] and 2 or 0, look()}
end
if ARGV[7] then
  -- insert draw
  number = draw(KEYS[3], ARGV[7], ARGV[8] or '', ARGV[9] or '')
end
-- The guard stays and so does what its settle has found out; the token excludes the old holder.
call('SET', M, ARGV[2], 'PX', px)
if on == ARGV[5] then
  if call('PTTL', L) * 2 < tonumber(ARGV[6]) then call('PEXPIRE', L, ARGV[6]) end
elseif on ~= '' then
  call('PEXPIRE', L, px)
end
return number
