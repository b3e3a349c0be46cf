-- pass: key, counter; old token, token, ms, numbers (0: none), TIME or '' twice → fencing number or 1, 0 when not ours
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local fence = 1
if ARGV[4] ~= '0' then fence = draw(KEYS[2], ARGV[4], ARGV[5], ARGV[6]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return fence
