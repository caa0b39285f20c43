-- row: 53
-- where: node
-- expect: error
-- says: 0/0
return fence.hold('x', 0/0)
