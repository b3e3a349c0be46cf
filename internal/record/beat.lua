-- beat: roster; member, all but the time, sec, usec (empty: the server's own), a nonce (empty: only if the member is there) → {sec, usec} or 0 if it is not there
local sec, usec = ARGV[3], ARGV[4]
if sec == '' then
  if redis.replicate_commands then redis.replicate_commands() end
  local t = redis.call('TIME')
  sec, usec = t[1], t[2]
end
if ARGV[5] ~= '' then
  redis.call('HSETNX', KEYS[1], 'nonce', ARGV[5])
elseif redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. sec .. '.' .. string.format('%06d', tonumber(usec)))
return {sec, usec}
