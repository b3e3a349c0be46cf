-- leave: key, order, alive, counter; place, TIME or '' twice → 1 if the key had the place's token and is given up, else 0
local _, _, _, token = parts(ARGV[1])
if redis.pcall('GET', KEYS[1]) == token then return pass(token, ARGV[2], ARGV[3]) end
local first = redis.call('ZRANGE', order, 0, 0)[1]
leave(ARGV[1])
if first == ARGV[1] then callHead() end
return 0
