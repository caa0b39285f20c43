-- row: 40
-- where: pod
-- expect: error
-- says: raised a table value
error({})
