-- row: 60
-- where: nodes
-- expect: error
-- says: make it inside of node()
return { a = fence.proceed('x') }
