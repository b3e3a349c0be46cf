-- acquire: key, counter; token, ms, numbers, TIME or '' twice → first fencing number, 0 when the key is taken
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
-- insert
local first = draw(KEYS[2], ARGV[3], ARGV[4], ARGV[5])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return first
