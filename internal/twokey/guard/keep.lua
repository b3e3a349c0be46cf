-- restore gives the tombstone its time back, which is so long that this is only needed when somebody cut
-- it, or when it has grown old.
local function restore(px)
  if call('PTTL', L) * 2 < tonumber(px) then call('PEXPIRE', L, px) end
end

-- keep gives both keys their time.
local function keep(on, px, tomb, tombPX)
  call('PEXPIRE', M, px)
  if on == tomb then
    restore(tombPX)
  elseif on ~= '' then
    call('PEXPIRE', L, px)
  end
end
