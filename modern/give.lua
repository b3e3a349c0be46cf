-- give: key, order, alive, counter if numbers may be drawn; token, TIME or '' twice with the counter → 1 if the key had the token and is given to the first waiter or deleted, else 0
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1], KEYS[3])
  return 1
end
-- insert
return pass(ARGV[1], ARGV[2], ARGV[3])
