-- beat: member; all but the time, sec, usec (empty: the server's own) → {sec, usec}
local sec, usec = ARGV[2], ARGV[3]
if sec == '' then
  if redis.replicate_commands then redis.replicate_commands() end
  local t = redis.call('TIME')
  sec, usec = t[1], t[2]
end
redis.call('SET', KEYS[1], ARGV[1] .. sec .. '.' .. string.format('%06d', tonumber(usec)))
return {sec, usec}
