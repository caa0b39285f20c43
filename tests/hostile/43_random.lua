-- row: 43
-- where: pod
-- expect: load
-- says: unknown function 'random' of 'math'
math.random()
