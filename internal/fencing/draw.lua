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
