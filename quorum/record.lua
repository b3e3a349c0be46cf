-- record: key; name, members, greatest TTL in ms, epoch; run id; watcher's clock and ms by it ('': no proof yet); ms that were watched when this client last looked, ms since then; ms after which a run votes (-1: none does) → the record
local function field(name) return redis.call('HGET', KEYS[1], name) end
if not field('epoch') or tonumber(field('epoch')) < tonumber(ARGV[4]) then
  redis.call('DEL', KEYS[1])
  redis.call('HMSET', KEYS[1], 'name', ARGV[1], 'members', ARGV[2], 'ttl', ARGV[3], 'epoch', ARGV[4], 'run', '')
end
local known = field('name') == ARGV[1] and field('members') == ARGV[2] and field('ttl') == ARGV[3] and field('epoch') == ARGV[4]
if known and field('run') ~= ARGV[5] then
  if field('watching') ~= ARGV[5] then
    redis.call('HMSET', KEYS[1], 'watching', ARGV[5], 'watched', 0, 'by', ARGV[6], 'at', ARGV[7])
  elseif ARGV[6] ~= '' then
    -- No moment counts twice: either the same clock says how much passed since it was read last, or nobody has
    -- added anything since this client last looked.
    local passed
    if field('by') == ARGV[6] then
      passed = tonumber(ARGV[7]) - tonumber(field('at'))
    elseif field('watched') == ARGV[8] then
      passed = tonumber(ARGV[9])
    end
    if passed and passed >= 0 then
      redis.call('HINCRBY', KEYS[1], 'watched', passed)
      redis.call('HMSET', KEYS[1], 'by', ARGV[6], 'at', ARGV[7])
    elseif field('by') == '' then -- the first look with a proof: the watch begins
      redis.call('HMSET', KEYS[1], 'by', ARGV[6], 'at', ARGV[7])
    end
  end
  if tonumber(ARGV[10]) >= 0 and tonumber(field('watched')) >= tonumber(ARGV[10]) then
    redis.call('HMSET', KEYS[1], 'run', ARGV[5])
  end
end
return redis.call('HMGET', KEYS[1], 'name', 'members', 'ttl', 'epoch', 'run', 'watched')
