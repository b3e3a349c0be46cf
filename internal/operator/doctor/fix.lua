-- doctor-fix: L, M, M's look; value that must stand on L, value to put there or '' to delete → 0 changed, 1 done, 2 ours
local m = redis.pcall('GET', KEYS[2])
-- What a release leaves on M for a while is nobody's token.
local left = type(m) == 'string' and #m == 27 and string.find(m, '^left [%w_%-]+$')
if m and not left then return 2 end
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  -- The look spoke of the bytes that go.
  redis.call('DEL', KEYS[3])
  return redis.call('DEL', KEYS[1])
end
-- A SET drops the TTL, which a server of any age must find again.
local ttl = redis.call('PTTL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2])
if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end
return 1
