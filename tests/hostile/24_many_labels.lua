-- row: 24
-- where: pod
-- expect: ok load memory instructions
--@ repeat 6000 ::l#:: 
return fence.skip('alive')
