-- row: 40
-- where: pod
-- expect: error
-- says: raised a nil value
error(nil)
