-- row: 42
-- where: pod
-- expect: ok
-- says: table function pod table
return fence.skip(tostring({}) .. ' ' .. tostring(type) .. ' ' .. tostring(pod) .. ' ' .. string.format('%s', {}))
