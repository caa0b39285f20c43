-- row: 64
-- where: pod
-- expect: instructions
local i = 0
while true do
  i = i + 1
  if i % 2 == 0 then goto continue end
  i = i + 1
  ::continue::
end
