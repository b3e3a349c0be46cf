-- delete: L, M; value, tombstone → {deleted L, deleted M}
-- M goes with L when the bytes are those that its holder wrote there, else it would keep the key
-- taken. By its own token M alone can be deleted, where L was lost or has ended. A holder's tombstone
-- stays: it keeps old clients out.
local L, M = KEYS[1], KEYS[2]
-- insert left
local kind, m = redis.call('TYPE', L).ok, redis.call('GET', M)
local value, deleted = ARGV[1], {0, 0}
local token, bytes = false, false
-- What a release leaves on M for a while is nobody's token.
if m and not left() then
  local blank = string.find(m, ' ', 1, true) or #m + 1
  local last = string.find(m, ' ', blank + 1, true) or #m + 1
  token, bytes = string.sub(m, 1, blank - 1), string.sub(m, blank + 1, last - 1)
end
if kind == 'string' and redis.call('GET', L) == value then
  deleted[1] = redis.call('DEL', L)
  if bytes and bytes == value then deleted[2] = redis.call('DEL', M) end
elseif token and token == value then
  local its = kind == 'string' and bytes ~= ARGV[2] and redis.call('GET', L) == bytes
  if its and redis.call('PTTL', L) >= 0 then
    deleted[1] = redis.call('DEL', L)
  end
  deleted[2] = redis.call('DEL', M)
end
return deleted
