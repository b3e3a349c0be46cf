-- stamp is the text of the clock and the lease after it, cut to the unit. (The lease is a number of
-- units, so it is the clock that is cut, as the old clients do it.) Seconds and the rest stay apart to
-- the end: no double holds the nanoseconds since 1970.
local function stamp(unit, sec, usec, addSec, addUsec)
  sec, usec = sec + addSec, usec + addUsec
  if usec >= 1000000 then sec, usec = sec + 1, usec - 1000000 end
  if unit == 'ticks' then sec = sec + 62135596800 end
  local whole, micros = string.format('%.0f', sec), string.format('%06.0f', usec)
  if unit == 's' then return whole end
  if unit == 'ms' then return whole .. string.sub(micros, 1, 3) end
  if unit == 'ns' then return whole .. micros .. '000' end
  if unit == 'ticks' then return whole .. micros .. '0' end
  local fraction = string.gsub(micros, '0+$', '')
  if fraction == '' then fraction = '0' end
  return whole .. '.' .. fraction
end

-- mark is the bytes for L. a: unit, lease in seconds and micros, head (what stands before the
-- number, or a token instead of one), encoding.
local function mark(sec, usec, unit, addSec, addUsec, head, encoding)
  local text = head
  if unit ~= 'none' then text = head .. stamp(unit, sec, usec, tonumber(addSec), tonumber(addUsec)) end
  if encoding == 'json' then return '"' .. text .. '"' end
  if encoding == 'jdk' then
    return '\172\237\0\5t' .. string.char(math.floor(#text / 256), #text % 256) .. text
  end
  return text
end
