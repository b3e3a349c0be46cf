-- acquire: key, counter; token, ms, the server's clock in microseconds where the caller knows it → first fencing number (the block ends with the clock, but is this number alone where that is behind), {it, the clock} where the script read the clock, 0 when the key is taken
local clock = ARGV[3]
if not clock then
  -- Redis 3.2 to 4 must be told before the first write that a reading of the clock decides what is
  -- written. Older ones refuse the SET below, and nothing was executed.
  if redis.replicate_commands then redis.replicate_commands() end
  local t = redis.call('TIME')
  clock = t[1] .. string.sub('00000' .. t[2], -6)
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
-- The clock is mostly ahead of the counter, and its very digits become the last number of the block: one
-- command reads the old counter and writes the new one, and no double is made a text.
local first, last = clock - 7, redis.pcall('SET', KEYS[2], clock, 'GET')
local was = tonumber(last or 0)
if not (was and was < first) then
  if type(last) == 'table' then
    -- Redis before 6.2 has no SET … GET.
    last = redis.pcall('GET', KEYS[2])
    was = tonumber(last or 0)
    if was then redis.call('SET', KEYS[2], clock) end
  end
  if not (was and was <= 9e15) then
    -- A counter that cannot be read stays as it was, and must not leave the key taken.
    if type(last) == 'string' then redis.call('SET', KEYS[2], last) end
    redis.call('DEL', KEYS[1])
    error('getsetlock: ' .. KEYS[2] .. ' holds no fencing number')
  end
  first = math.max(first, was + 1)
  if first > tonumber(clock) then redis.call('SET', KEYS[2], string.format('%.0f', first)) end
end
if ARGV[3] then return first end
return {first, clock}
