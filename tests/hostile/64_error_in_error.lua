-- row: 64
-- where: pod
-- expect: error
-- says: raised a table value
error({ error({ 'inner' }) })
