-- give: key, counter, order, alive, gives; token, ms for who must fetch it, 1 fair, TIME or '' twice → 1 when the key was ours and is given on or deleted, 0 when it was not
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
give(ARGV[2], ARGV[3] ~= '1')
return 1
