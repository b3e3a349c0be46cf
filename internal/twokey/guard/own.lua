-- own: on is from here what the lease hangs on, or the script ends with what stands there. Mostly both keys carry
-- what was sent, and that is all.
if redis.pcall('GET', M) ~= ARGV[1] or on ~= '' and redis.pcall('GET', L) ~= on then
  -- insert look
  -- insert mine
  on = mine(string.match(ARGV[1], '[^ ]*'))
  if not on then
    -- A release whose reply was lost is sent again: it has left the key.
    if redis.pcall('GET', M) == 'left ' .. string.match(ARGV[1], '[^ ]*') then return 1 end
    -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
    return {0, look()}
  end
  if not stands(on) then
    -- Nothing is put back either: that would hide from the next holder who was let in (rule 10).
    call('DEL', M)
    return {2, look()}
  end
end
