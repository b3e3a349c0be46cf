-- now is the server's clock, or the caller's reading of it, since Redis before 3.2 lets no script
-- write that has called TIME. Up to 4 such a script must replicate its effects.
local function now(sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  return tonumber(sec), tonumber(usec)
end
