-- own: the script ends with what is there, unless both keys are this token's.
local last = mine(ARGV[1])
if not last then
  -- A release whose reply was lost is sent again: it has left the key.
  if call('GET', M) == 'left ' .. ARGV[1] then return 1 end
  -- Without M nothing proves that bytes on L are ours, so L is left to its TTL.
  return {0, look()}
end
if not stands(last, ARGV[2]) then
  -- Somebody else has been let in, so nobody is owed a turn. What M held explains what is on L.
  call('DEL', M)
  local seen = look()
  seen[5] = ARGV[1] .. ' ' .. last
  return {2, seen}
end
