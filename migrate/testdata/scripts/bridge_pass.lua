-- bridge_pass: L, M, counter if there is one; all of M, what it becomes, PX, what stands on L for it ('': nothing), tombstone, its PX, and, as far as needed, numbers, TIME twice → fencing number or 1, or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
local px, on, number = ARGV[3], ARGV[4], 1
local m = redis.pcall('GET', M)
if m ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- look is what stands there, and the clock: type, value (its first kilobyte), size, PTTL, M, its PTTL,
-- seconds, microseconds. Nothing is written after it.
local function look()
  local t = call('TIME')
  local kind, value, size = call('TYPE', L).ok, false, 0
  if kind == 'string' then
    value, size = call('GETRANGE', L, 0, 1023), call('STRLEN', L)
  end
  local m = redis.pcall('GET', M)
  if type(m) == 'table' then m = '' end
  return {kind, value, size, call('PTTL', L), m, call('PTTL', M), t[1], t[2]}
end
  return {m == ARGV[1] and 2 or 0, look()}
end
if ARGV[7] then
  -- Fencing numbers: the greater of last + 1 and the server's clock in microseconds, which doubles hold
-- exactly until the year 2255. The clock makes a promoted replica that lost writes go on above what
-- was given out; the counter makes a clock that was set back do no harm.
local function draw(counter, numbers, sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  local last = tonumber(redis.call('GET', counter) or 0)
  if not (last and last <= 9e15) then error('getsetlock: ' .. counter .. ' holds no fencing number') end
  local fence = math.max(last + 1, tonumber(sec) * 1000000 + tonumber(usec))
  redis.call('SET', counter, string.format('%.0f', fence + tonumber(numbers) - 1))
  return fence
end
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
