-- mine is what we wrote last on L, if M is this token's. M remembers it, so that also after a lost
-- reply every script knows which bytes are ours.
local function mine(token)
  local m = redis.call('GET', M)
  if m and string.sub(m, 1, #token + 1) == token .. ' ' then return string.sub(m, #token + 2) end
  return false
end

-- stands says whether L still carries that mark. The same bytes without a TTL are somebody else's,
-- who wrote them in the same unit of time; where the old clients set one too, so are those that do
-- not end together with M, gap ms later.
local function stands(bytes, gap)
  if redis.call('TYPE', L).ok ~= 'string' or redis.call('GET', L) ~= bytes then return false end
  local left = redis.call('PTTL', L)
  if left < 0 then return false end
  if gap == '' then return true end
  local off = left - redis.call('PTTL', M) - tonumber(gap)
  return off > -100 and off < 100
end
