-- mine is what our lease hangs on, if M is this token's: the guard that we wrote, the tombstone that was
-- there, or nothing ('') where M is all there is. M remembers it, so that also after a lost reply every
-- script knows which bytes on L are ours. Behind them may stand who the holder is.
local function mine(token)
  local m = redis.pcall('GET', M)
  if m == token then return '' end
  if type(m) ~= 'string' or string.sub(m, 1, #token + 1) ~= token .. ' ' then return false end
  local blank = string.find(m, ' ', #token + 2, true)
  return string.sub(m, #token + 2, (blank or 0) - 1)
end

-- stands says whether L still carries that. A guard is known by all its bytes, and nobody else draws it.
local function stands(on) return on == '' or redis.pcall('GET', L) == on end
