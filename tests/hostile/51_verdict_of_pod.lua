-- row: 51
-- where: node
-- expect: error
-- says: make it inside of pod()
return fence.delete_pod('x')
