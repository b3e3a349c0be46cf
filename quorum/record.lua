-- record: key; name, members, greatest TTL in ms, epoch; run id; the machine's clock that watches ('': none, or no proof yet) and ms by it; ms that were watched when this client last looked ('': it may not count), ms since then; ms after which a run votes (-1: none does) → the record
local function field(name) return redis.call('HGET', KEYS[1], name) end
local function begin(run)
  redis.call('DEL', KEYS[1])
  redis.call('HMSET', KEYS[1], 'name', ARGV[1], 'members', ARGV[2], 'ttl', ARGV[3], 'epoch', ARGV[4], 'run', run)
end
if not field('epoch') or tonumber(field('epoch')) < tonumber(ARGV[4]) then begin('') end
local known = field('name') == ARGV[1] and field('members') == ARGV[2] and field('ttl') == ARGV[3] and field('epoch') == ARGV[4]
if known and field('run') ~= ARGV[5] then
  if field('watching') ~= ARGV[5] then
    begin(field('run')) -- without the clocks of an earlier run
    redis.call('HMSET', KEYS[1], 'watching', ARGV[5], 'watched', 0)
  end
  -- At least so long the run had been watched when this client sent its request, by its own looks or by its
  -- machine's clock. The greatest of all such times counts, so no moment counts twice. What the record says now may
  -- be newer than the request, so it is not added to.
  local watched, own = tonumber(field('watched')), 0
  if ARGV[8] ~= '' and tonumber(ARGV[8]) <= watched then own = ARGV[8] + ARGV[9] end
  if ARGV[6] ~= '' then
    own = math.max(own, ARGV[7] + (field('of:' .. ARGV[6]) or -ARGV[7]))
    redis.call('HMSET', KEYS[1], 'of:' .. ARGV[6], string.format('%.0f', own - ARGV[7]))
  end
  watched = math.max(watched, own)
  redis.call('HMSET', KEYS[1], 'watched', string.format('%.0f', watched))
  if tonumber(ARGV[10]) >= 0 and watched >= tonumber(ARGV[10]) then
    redis.call('HMSET', KEYS[1], 'run', ARGV[5])
  end
end
return redis.call('HMGET', KEYS[1], 'name', 'members', 'ttl', 'epoch', 'run', 'watched')
