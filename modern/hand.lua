-- The rest of a script gives the key on if it carries mine: it belongs to the first in line from here on,
-- or to nobody. Whether he is alive those behind him find out at their tries, not we at every release.
-- He is told by his fencing number or 1. One who wants to ask is told 0, and like one who cannot be told
-- he has ARGV[2] ms to come for the key. In the plain form, gives says what the key is for. Somebody
-- waits while this runs, so the usual way through it makes and calls no functions but the server's.
local key, order = KEYS[1], KEYS[3]
if redis.pcall('GET', key) ~= mine then return 0 end
local popped = redis.pcall('ZPOPMIN', order)
local first = popped[1]
if popped.err then first = redis.call('ZRANGE', order, 0, 0)[1] end -- before Redis 5
if not first then
  redis.call('DEL', key, KEYS[4], KEYS[5])
  return 1
end
local process, ms, numbers, token = string.match(first, '^(%S+) (%d+) (%d+) (.*)$')
local drawn, word = true, '1 '
if numbers ~= '0' then
  -- It may be refused; on servers that let nobody write behind TIME nothing is written yet.
  local number
  drawn, number = pcall(draw, KEYS[2], numbers, ARGV[#ARGV - 1], ARGV[#ARGV])
  word = drawn and string.format('%.0f ', number)
end
if popped.err then redis.call('ZREM', order, first) end
if not drawn then -- he will be told why
  redis.call('DEL', key)
  if process ~= '-' then redis.pcall('PUBLISH', 'gsl:turn:' .. process, '0 ' .. token) end
  return 1
end
local asks = ms == '0'
if asks then ms, word = ARGV[2], '0 ' end
redis.call('SET', key, token, 'PX', ms)
local heard = process ~= '-' and redis.pcall('PUBLISH', 'gsl:turn:' .. process, word .. token)
if not asks and (type(heard) ~= 'number' or heard == 0) then redis.call('PEXPIRE', key, ARGV[2]) end
if ARGV[3] ~= '1' then redis.call('SET', KEYS[5], ' ' .. token, 'PX', 5000) end -- as long as the line's keys
return 1
