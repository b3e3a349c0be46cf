-- step: record; the bytes that were judged (none: empty), the new ones → 1 changed, 0 if others stand there
local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
