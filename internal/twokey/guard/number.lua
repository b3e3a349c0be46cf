-- bridge_number: counter; numbers, and, where needed, TIME twice → fencing number
-- insert draw
return draw(KEYS[1], ARGV[1], ARGV[2] or '', ARGV[3] or '')
